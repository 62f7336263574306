# SPDX-License-Identifier: Apache-2.0
"""Cutting long texts."""


def cut(text, limit):
    """Returns text, or its head and tail around a note of what is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters cut …\n{text[-half:]}"
