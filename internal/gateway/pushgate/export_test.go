package pushgate

import (
	"context"

	"godwit.dev/godwit/internal/server/module"
)

// Page is the page of the console.
func (g *Gateway) Page(ctx context.Context) (module.View, error) { return g.page(ctx, "") }
