package freeport

import (
	"context"
	"net/netip"
)

// Try takes a certain address.
func Try(ctx context.Context, addr string) (string, func(), error) {
	return try(ctx, int(netip.MustParseAddrPort(addr).Port()))
}
