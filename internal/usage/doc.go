// SPDX-License-Identifier: Apache-2.0

// Package usage keeps what tenants use, in the store, and stops those that have used up their budget.
//
// What an execution or a sandbox used is added to its tenant's day when it ends, before its answer is sent. A budget is for a
// calendar month in UTC. What runs when it is used up goes on: a tenant can exceed a budget by what it may have alive at once,
// which its quotas bound. A second server on the same database is taken into account within refreshEvery.
package usage
