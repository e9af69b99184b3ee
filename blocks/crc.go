package blocks

import "hash/crc32"

// combine returns the CRC-32C of two pieces of data one after the other, of which it knows
// the checksums, and of the second one the length in bytes. That of a whole file follows from
// those of its chunks so, as in HDFS's COMPOSITE-CRC32C.
//
// A CRC is a remainder of polynomials over GF(2): appending n bytes multiplies that of what
// is before by x^8n, and adds that of the bytes. Bit 31 is the coefficient of x^0.
func combine(first, second uint32, length int64) uint32 {
	return multiply(power(length), first) ^ second
}

// power returns x^8n modulo the polynomial.
func power(n int64) uint32 {
	p, square := uint32(1)<<31, uint32(1)<<23 // 1 and x^8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(p, square)
		}
		square = multiply(square, square)
	}
	return p
}

// multiply returns the product of a and b modulo the polynomial.
func multiply(a, b uint32) (p uint32) {
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.Castagnoli*(b&1)
	}
	return p
}
