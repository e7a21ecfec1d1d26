package mailboxdb

// SmallSlices makes the index be sealed every 2^bits rows, so that tests reach it.
func (c *Config) SmallSlices(bits uint) { c.sliceBits = bits }
