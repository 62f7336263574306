// SPDX-License-Identifier: Apache-2.0
// Starts the TypeScript interpreter of a sandbox: JavaScript's, with a step before.
'use strict';

require('../javascript/glovebox/session.js').serve('typescript', 3);
