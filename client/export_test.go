// SPDX-License-Identifier: Apache-2.0

package client

// LimitForTest replaces MaxAnswer: reading that much takes a test too long.
func (c *Client) LimitForTest(most int64) { c.most = most }
