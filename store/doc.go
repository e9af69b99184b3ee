// Package store is a folder with a Pebble store in it, for state that is written ahead: what its
// owner has answered is on the disk, and damage to the disk is an error and never an answer.
//
// # Contract
//
// [Open] makes the caller the folder's one owner. Of a new folder (Existed says so) the owner
// writes what a folder always has and then calls [Store.Complete]: a crash before leaves a folder
// that can be made again. Reading goes through DB. Writing goes through [Store.Commit], one call
// at a time, and is durable when it returns.
//
// # Failure
//
// A write to the log that fails ends all writing for good, since what is on the disk is then
// unknown: opening the folder again recovers what a crash at that moment would have left. Pebble is
// not told, since it would panic or hang; so nothing that was read is an answer before
// [Store.Failure] has returned nil after it. A damaged log is refused by Open, and a damaged table
// is kept as it is: see checkLogs and compacted.
package store
