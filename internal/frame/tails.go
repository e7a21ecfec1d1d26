package frame

import "godwit.dev/godwit/internal/notification"

var tailEncoders [3]func(*notification.Notification) []byte
