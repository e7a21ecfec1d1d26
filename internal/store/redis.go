package store

import (
	"context"

	"godwit.dev/godwit/internal/store/redisstream"
)

// RedisConfig names the Redis streams that are the mailboxes of the service that Godwit replaces.
type RedisConfig = redisstream.Config

// OpenRedis opens these streams. Callers must call Run and Close.
func OpenRedis(ctx context.Context, cfg RedisConfig) (*redisstream.Store, error) {
	return redisstream.Open(ctx, cfg)
}

// RedisRecipient maps a client id of the replaced service to its recipient.
func RedisRecipient(client string) string { return redisstream.Recipient(client) }
