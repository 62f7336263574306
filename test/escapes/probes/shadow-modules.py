# expect: contained
# kind: integrity; why: files of a run that are named like modules must not replace those of the library
import os, subprocess, sys
bad = "import sys; sys.stdout.write('BREACH: a file of the run replaced a module\\n')\n"
for name in ("json", "sitecustomize", "usercustomize", "numpy", "glovebox", "encodings", "base64", "matplotlib", "codecs", "tempfile"):
    with open(name + ".py", "w") as f:
        f.write(bad)
for name in ("x.pth", "distutils-precedence.pth"):
    open(name, "w").write("import sys; sys.stdout.write('BREACH: a .pth file ran\\n')\n")
os.makedirs(os.path.expanduser("~/.local/lib/python3.13/site-packages"), exist_ok=True)
for version in os.listdir(os.path.expanduser("~/.local/lib")):
    for name in ("usercustomize.py", "x.pth"):
        open(os.path.expanduser("~/.local/lib/%s/site-packages/%s" % (version, name)), "w").write(bad)
for name in ("json", "base64", "tempfile", "uuid", "csv"):
    sys.modules.pop(name, None)
import base64, csv, json, tempfile
assert json.loads("[1]") == [1] and "/usr" in json.__file__
print("CONTAINED")
