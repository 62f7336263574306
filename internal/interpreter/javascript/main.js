// SPDX-License-Identifier: Apache-2.0
// Starts the JavaScript interpreter of a sandbox.
'use strict';

require('./glovebox/session.js').serve('javascript', 3);
