// Package webpage proves the web page with a real browser: a person signs in, composes a campaign, watches it arrive
// and takes it back.
package webpage
