# SPDX-License-Identifier: Apache-2.0
"""Proves that the finished image works: imports, time zones, and a chart in ten scripts."""

import importlib
import io
import logging
import sys
import tempfile
import warnings

MODULES = """
    numpy pandas matplotlib.pyplot seaborn scipy.stats sklearn.linear_model statsmodels.api
    openpyxl xlsxwriter python_calamine xlrd pyxlsb odf.opendocument pyarrow.parquet polars duckdb
    plotly.express altair bokeh.plotting sympy PIL.Image requests IPython tabulate lxml.etree bs4
    joblib jinja2 networkx tqdm.auto yaml pip sqlite3 ssl lzma bz2 ctypes zoneinfo
"""
TITLE = "销售额 売上 매출 مبيعات हिन्दी 😀 −5"
LABEL = "ไทย தமிழ் বাংলা עברית ελ ру ₹ € 👍 🚀 ✅ ❤"


def chart(plt, path):
    figure, axes = plt.subplots()
    axes.bar(["一月", "二月", "三月"], [3, -5, 2])
    axes.set_title(TITLE, fontweight="bold")
    axes.set_xlabel(LABEL)
    figure.savefig(path)
    plt.close(figure)


def size(path):
    with open(path, "rb") as file:
        header = file.read(24)
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


def main():
    for name in MODULES.split():
        importlib.import_module(name)
    import zoneinfo

    for zone in "Europe/Paris", "US/Eastern":
        zoneinfo.ZoneInfo(zone)

    import matplotlib.pyplot as plt
    import seaborn

    warnings.simplefilter("error")  # a missing glyph is a warning
    said = io.StringIO()
    logging.getLogger("matplotlib").addHandler(logging.StreamHandler(said))
    path = tempfile.mkdtemp() + "/chart.png"
    chart(plt, path)
    if size(path) != (1024, 768):
        sys.exit(f"a chart measures {size(path)}, not 1024 x 768: matplotlibrc is not read")
    for disturb in (
        seaborn.set_theme,
        lambda: plt.rcParams.update({"font.family": "SimHei"}),
        lambda: plt.rcParams.update({"font.sans-serif": ["Microsoft YaHei"]}),
        plt.rcdefaults,
    ):
        disturb()
        chart(plt, path)
    if said.getvalue():
        sys.exit("drawing is not silent: " + said.getvalue())


main()
