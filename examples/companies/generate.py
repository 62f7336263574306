# SPDX-License-Identifier: Apache-2.0
"""Writes companies.xlsx: 100 invented companies, the same ones every time."""

import random

from openpyxl import Workbook
from openpyxl.styles import Font

# Industry: typical revenue in 10,000 yuan, typical debt ratio in percent.
INDUSTRIES = {
    "制造业": (42_000, 48),
    "信息技术": (18_000, 34),
    "房地产": (95_000, 74),
    "医药生物": (15_000, 31),
    "批发零售": (60_000, 58),
    "交通运输": (33_000, 52),
    "能源化工": (88_000, 56),
    "金融服务": (71_000, 81),
}
FIRST = "华东南中新恒金泰盛安"
SECOND = "达信通瑞源丰宁和远科"
COUNT = 100


def companies():
    rng = random.Random(2026)
    industries = list(INDUSTRIES)
    for number in range(COUNT):
        industry = industries[int(rng.random() * len(industries))]
        revenue, debt = INDUSTRIES[industry]
        revenue = round(revenue * (0.4 + 1.6 * rng.random()), 2)
        debt = round(debt + 24 * (rng.random() - 0.5), 2)
        cash = round(revenue * (0.25 * rng.random() - 0.05), 2)
        yield FIRST[number // 10] + SECOND[number % 10] + "股份", industry, revenue, debt, cash


def main():
    book = Workbook()
    sheet = book.active
    sheet.title = "公司"
    sheet.append(["公司", "行业", "营业收入（万元）", "资产负债率（%）", "经营现金流（万元）"])
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    for company in companies():
        sheet.append(company)
    book.save("companies.xlsx")
    print(f"companies.xlsx: {COUNT} companies, {len(INDUSTRIES)} industries")


main()
