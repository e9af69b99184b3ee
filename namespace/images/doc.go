// Package images keeps packed immutable items in memory under a byte budget. It knows
// nothing of what they hold: an item is bytes under a 64-bit key, with the transaction
// id since which they are current.
package images
