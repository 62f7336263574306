# SPDX-License-Identifier: Apache-2.0
"""Runs the cells of notebook.txt in a real Jupyter kernel and prints its normalised answers as JSON.

Run with the Python of the image and jupyter_client and ipykernel beside it: python jupyter.py < notebook.txt > jupyter.json
"""

import json
import re
import sys

from jupyter_client.manager import start_new_kernel


def cells(text):
    name, lines = None, []
    for line in text.splitlines():
        if line.startswith("%%%% "):
            if name is not None:
                yield name, "\n".join(lines)
            name, lines = line[5:], []
        else:
            lines.append(line)
    yield name, "\n".join(lines)


def normal(text):
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"/tmp/ipykernel_\d+/\d+\.py", "<cell>", text)
    return re.sub(r"0x[0-9a-f]+", "0x0", text)


def run(client, code):
    answer = {"stdout": "", "stderr": "", "shown": [], "error": None}
    sent = client.execute(code, allow_stdin=False)
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != sent:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            return answer
        if kind == "stream":
            answer[content["name"]] += normal(content["text"])
        elif kind in ("display_data", "execute_result"):
            answer["shown"].append(
                {
                    "kind": "result" if kind == "execute_result" else "display",
                    "types": sorted(content["data"]),
                    "text": normal(content["data"].get("text/plain", "")),
                }
            )
        elif kind == "error":
            answer["error"] = {"name": content["ename"], "value": normal(content["evalue"])}


manager, client = start_new_kernel(kernel_name="python3")
answers = {name: run(client, code) for name, code in cells(sys.stdin.read())}
client.stop_channels()
manager.shutdown_kernel(now=True)
json.dump(answers, sys.stdout, ensure_ascii=False, indent=1)
print()
