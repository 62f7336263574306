# SPDX-License-Identifier: Apache-2.0
"""Every bound of this program, by name."""

# The frame format; see Go's package wire.
VERSION = 1
HEADER_SIZE = 12
MAX_PAYLOAD = 256 << 10
MAX_MESSAGE = 32 << 20

# Printing: so many writes may go out at once before writes are gathered, and a
# gathered batch leaves after so many bytes or seconds.
DIRECT_WRITES = 16
DIRECT_REFILL_SECONDS = 0.001
GATHER_BYTES = 64 << 10
GATHER_SECONDS = 0.01
GATHER_IDLE_ROUNDS = 10

# Values: characters of a text form, bytes of other forms.
MAX_TEXT = 64 << 10
MAX_MARKUP = 2 << 20
MAX_IMAGE = 16 << 20
MAX_JSON_FORM = 16 << 20
MAX_IMAGE_PIXELS = 16_000_000
# str() of an int is quadratic; this many digits still take milliseconds.
MAX_INT_DIGITS = 50_000
MAX_PRETTY_ITEMS = 1000
MAX_PRETTY_DEPTH = 12
PRETTY_WIDTH = 79

# JSON trees made from user values.
MAX_JSON_DEPTH = 40
MAX_JSON_ITEMS = 200_000
MAX_JSON_INT_BITS = 1024  # a longer int is sent as text: few readers take such a number

# Tables.
TABLE_HEAD_ROWS = 10
TABLE_TAIL_ROWS = 5
TABLE_WHOLE_ROWS = 60  # a table of up to so many rows is shown whole, when it is narrow
TABLE_WHOLE_CELLS = 1200
TABLE_MAX_CELLS = 600  # rows shown of a large table are cut until rows * columns fits
TABLE_MAX_FORM = 64 << 10  # characters of one form; rows, then columns are left out until it fits
TABLE_MAX_COLUMNS = 200
TABLE_MAX_CELL = 100
TABLE_MAX_LABEL = 200

# Errors.
MAX_ERROR_VALUE = 64 << 10
MAX_TRACEBACK = 128 << 10
MAX_FRAMES = 200  # of a stack that is ten times deeper: its innermost ones are shown
MAX_SOURCE_LINE = 5000  # characters of a line that tracebacks may show
MAX_SOURCES = 1000  # cells whose lines are kept for tracebacks

# Charts.
CHART_DPI = 160
CHART_MAX_PIXELS = 16_000_000
CHART_MAX_SIDE = 16_000
CHART_MAX_SERIES = 50
CHART_MAX_POINTS = 1000
CHART_MAX_AXES = 50
CHART_MAX_TICKS = 100

# What the code tried: characters of a path or command line that are looked at, close looks and notices a cell.
MAX_AUDIT_TEXT = 4096
MAX_AUDIT_LOOKS = 1000
MAX_AUDIT_NOTICES = 16

# Threads of the last cell are waited for without a bound: the sandbox's own time limit ends them.
