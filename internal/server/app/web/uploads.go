package web

import (
	"path/filepath"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/gateway/uploads"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/httpapi/call"
)

// openUploads starts the store of bodies that are too large for a request.
func (w *Web) openUploads() error {
	s := w.Settings
	cfg := uploads.Config{Max: int64(s.UploadsMax), Keep: time.Duration(s.UploadsDays) * 24 * time.Hour, Now: w.Now, Log: w.Log}
	if s.UploadsBucket() {
		bucket, err := uploads.NewBucket(uploads.BucketConfig{
			URL: s.Uploads, KeyID: s.UploadsKeyID, Secret: s.UploadsSecret, Region: s.UploadsRegion, Days: s.UploadsDays, Now: w.Now,
			Transport: urlguard.Networks.Client(urlguard.Options{ConnsPerHost: urlguard.Unbounded}).Transport, // the gateway limits uploads
		})
		if err != nil {
			return err
		}
		cfg.Place = bucket
	} else {
		dir := s.Uploads
		if dir == "" {
			dir = filepath.Join(s.Data, "uploads")
		}
		folder := uploads.NewFolder(uploads.FolderConfig{
			Dir: dir, Keep: cfg.Keep, Most: int64(s.UploadsSpace), MinFree: int64(s.MinFree), Base: strings.TrimSuffix(s.PublicURL, "/"),
		})
		cfg.Place, w.fetched = folder, []call.Route{folder.Route(w.Now)}
	}
	w.uploads = uploads.New(cfg)
	w.Registry.MustRegister(w.uploads)
	w.Steps.AddRun("uploads", ground.StorePatience, w.uploads.Run)
	return nil
}
