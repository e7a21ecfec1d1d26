package campaignrow

// AppTable is a table with rows of apps, and what tells its rows apart.
type AppTable struct{ Table, Key string }

// OfApp are the tables with rows of an app that go when the app is erased, besides campaigns and endpoints. Epochs of owners
// stay: they name nobody.
func OfApp() []AppTable {
	return []AppTable{
		{"push_send", "num"},
		{"preference", "app, recipient"},
		{"step_begun", "app, recipient, category, id"},
		{"campaign_key", "app, name"},
		{"campaign_day", "app, day, campaign, what"},
		{"tag_name", "id"},
		{"attribute_name", "id"},
		{"track_key", "app"},
	}
}
