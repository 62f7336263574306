# SPDX-License-Identifier: Apache-2.0
"""Reads companies.xlsx, prints the average debt ratio of each industry and draws it."""

import matplotlib.pyplot as plt
import pandas as pd

DEBT = "资产负债率（%）"

table = pd.read_excel("companies.xlsx", engine="calamine")
by_industry = table.groupby("行业")[DEBT].agg(["mean", "count"]).sort_values("mean")

print("行业  平均资产负债率（%）  公司数")
for industry, row in by_industry.iterrows():
    print(f"{industry}  {row['mean']:.2f}  {row['count']:.0f}")
print(f"全部  {table[DEBT].mean():.2f}  {len(table)}")

figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
bars = axes.barh(by_industry.index, by_industry["mean"], color="#3b6ea5")
axes.bar_label(bars, fmt="%.1f", padding=4)
axes.set_title("各行业平均资产负债率（100 家公司）")
axes.set_xlabel(DEBT)
axes.set_xlim(0, 100)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig("debt-ratio.png", dpi=200)
plt.close(figure)
