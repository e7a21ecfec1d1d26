package campaigndb

import (
	"testing"

	"godwit.dev/godwit/internal/store/storetest"
)

func TestSends(t *testing.T) {
	storetest.RunSends(t, func(t *testing.T) (storetest.SendStore, func() storetest.SendStore) {
		reopen := reopening(t, nil)
		return reopen(), func() storetest.SendStore { return reopen() }
	})
}

func TestPreferences(t *testing.T) {
	storetest.RunPreferences(t, func(t *testing.T) (storetest.PreferenceStore, func() storetest.PreferenceStore) {
		reopen := reopening(t, nil)
		return reopen(), func() storetest.PreferenceStore { return reopen() }
	})
}
