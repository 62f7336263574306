// SPDX-License-Identifier: Apache-2.0
// Every bound of this program, by name.
'use strict';

module.exports = {
  // The frame format; see Go's package wire.
  VERSION: 1,
  HEADER_SIZE: 12,
  MAX_PAYLOAD: 256 << 10,
  MAX_MESSAGE: 32 << 20,
  // While the guest does not take a frame: milliseconds until the next attempt.
  WRITE_PAUSE: 1,
  // Printing: so many writes may go out at once before writes are gathered, and one more after each interval; a gathered
  // batch leaves after so many bytes or milliseconds.
  DIRECT_WRITES: 200,
  DIRECT_REFILL_MS: 1,
  GATHER_BYTES: 32 << 10,
  GATHER_MS: 10,
  // How long the main thread may take to notice an interrupt before the code it runs is ended, in milliseconds.
  INTERRUPT_PATIENCE_MS: 250,
  // Values: characters of a text form, bytes of other forms.
  MAX_TEXT: 64 << 10,
  MAX_MARKUP: 2 << 20,
  MAX_IMAGE: 16 << 20,
  MAX_JSON_FORM: 16 << 20,
  MAX_INSPECT_ITEMS: 100,
  MAX_INSPECT_DEPTH: 4,
  // JSON trees made from user values.
  MAX_JSON_DEPTH: 40,
  MAX_JSON_ITEMS: 200_000,
  MAX_FORMS: 32,
  // Errors.
  MAX_ERROR_NAME: 1000,
  MAX_ERROR_VALUE: 64 << 10,
  MAX_TRACEBACK: 128 << 10,
  MAX_SOURCE_LINE: 500,
  // Cells whose lines and names are kept for tracebacks.
  MAX_SOURCES: 1000,
};
