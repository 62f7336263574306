# SPDX-License-Identifier: Apache-2.0
"""Charts: matplotlib's figures as pictures, and what a chart says as data."""
