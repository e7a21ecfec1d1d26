package campaignrow

// AppTable is a table with rows of apps, and the column that identifies a row.
type AppTable struct{ Table, Key string }

// OfApp lists the tables, besides campaigns and endpoints, whose rows of an app are deleted with the app. Epochs of owners
// stay, since they contain no names.
func OfApp() []AppTable {
	return []AppTable{
		{"push_send", "num"},
		{"preference", "app, recipient"},
		{"step_begun", "app, recipient, category, id"},
		{"campaign_key", "app, name"},
		{"campaign_day", "app, day, campaign, what"},
		{"endpoint_day", "app, day, channel"},
		{"tag_name", "id"},
		{"attribute_name", "id"},
		{"track_key", "app"},
	}
}
