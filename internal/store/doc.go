// SPDX-License-Identifier: Apache-2.0

// Package store keeps what must outlive the server in one database: keys, the records of executions and sandboxes, the code
// that was run, who read it, what tenants used, and answers to repeated requests; and bytes of files in one bucket (Blobs).
//
// A database is one server's at a time (Reserve), a bucket one database's (Claim).
//
// The database is SQLite, in a file of the data folder, or PostgreSQL by its URL; both pass the same tests, by the same SQL.
// What a method has acknowledged survives the death of the process; with SQLite a power failure may take the last moments
// (synchronous=NORMAL), and never the database.
//
// # Rules
//
// Every query about something that a tenant owns has the tenant in its WHERE clause: another's is not found, by the same
// answer and at the same cost as one that never was. Times are microseconds since 1970 in UTC, zero for never. The code of an
// execution is a row of its own, read by Code alone, which records who read it. Deleted rows are overwritten
// (secure_delete), and Purge takes them out of the write-ahead log as well.
//
// To change the schema: a new file in migrations, never a change of an old one. To add a noun: a file here, its table, and a
// case in the suite.
package store
