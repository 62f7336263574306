// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	_ "gocloud.dev/blob/s3blob" // the scheme s3
	"gocloud.dev/gcerrors"
)

// Blobs is a bucket: what executions printed and left, under TENANT/EXECUTION/NAME. It is a folder, or S3 and what speaks
// like it. It is safe for concurrent use.
type Blobs struct {
	bucket *blob.Bucket
	folder string // empty for S3
}

// File is a file that can be read from any place.
type File interface {
	io.ReadSeekCloser
}

// OpenBlobs opens a bucket: file:FOLDER, which is made when it is missing, or s3://BUCKET with the parameters of gocloud.dev
// (region, endpoint, s3ForcePathStyle, prefix). S3's credentials are found as its own tools find them.
func OpenBlobs(ctx context.Context, address string) (*Blobs, error) {
	folder, local := strings.CutPrefix(address, "file:")
	if !local {
		if !strings.HasPrefix(address, "s3://") {
			return nil, errors.New("blobs must be file:FOLDER or s3://BUCKET?region=REGION")
		}
		bucket, err := blob.OpenBucket(ctx, address)
		if err != nil {
			return nil, fmt.Errorf("open the bucket: %w", err)
		}
		return &Blobs{bucket: bucket}, nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the bucket: %w", err)
	}
	bucket, err := fileblob.OpenBucket(folder, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite, DirFileMode: 0o700})
	if err != nil {
		return nil, fmt.Errorf("open the folder of the bucket: %w", err)
	}
	return &Blobs{bucket: bucket, folder: folder}, nil
}

// Close releases the bucket.
func (b *Blobs) Close() error { return b.bucket.Close() }

// ErrForeignBucket means that the bucket's files are those of another database, for which they would be swept as orphans.
var ErrForeignBucket = errors.New("the bucket belongs to another database")

// ownerKey names the object that says whose the bucket is.
const ownerKey = ".glovebox"

// Claim makes the bucket that of a database for good, or says ErrForeignBucket.
func (b *Blobs) Claim(ctx context.Context, identity string) error {
	owner, err := b.bucket.ReadAll(ctx, ownerKey)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		err = b.bucket.WriteAll(ctx, ownerKey, []byte(identity), nil)
	case err == nil && string(owner) != identity:
		return fmt.Errorf("%w: use the database that it was filled with, or another bucket, or delete what is in it", ErrForeignBucket)
	}
	if err != nil {
		return fmt.Errorf("claim the bucket: %w", err)
	}
	return nil
}

// Take moves a folder of files into the bucket, as what there is of a tenant's execution: for a folder bucket by one rename.
// When it returns nil the folder is gone.
func (b *Blobs) Take(ctx context.Context, dir, tenant, id string) error {
	if b.folder != "" {
		err := b.rename(dir, tenant, id)
		if !errors.Is(err, syscall.EXDEV) {
			return err
		}
	}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return b.upload(ctx, name, path.Join(tenant, id, filepath.ToSlash(relative)))
	})
	if err != nil {
		return errors.Join(err, b.Remove(context.WithoutCancel(ctx), tenant, id))
	}
	return os.RemoveAll(dir)
}

func (b *Blobs) rename(dir, tenant, id string) error {
	target := filepath.Join(b.folder, tenant, id)
	err := os.Rename(dir, target)
	if errors.Is(err, fs.ErrNotExist) { // the tenant's first, or a sweep took its empty folder
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		err = os.Rename(dir, target)
	}
	return err
}

func (b *Blobs) upload(ctx context.Context, file, key string) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := b.bucket.Upload(ctx, key, source, &blob.WriterOptions{ContentType: "application/octet-stream"}); err != nil {
		return fmt.Errorf("store a file in the bucket: %w", err)
	}
	return nil
}

// Open opens a file of a tenant's execution, or says ErrNotFound. The context must last until it is closed.
func (b *Blobs) Open(ctx context.Context, tenant, id, name string) (File, error) {
	reader, err := b.bucket.NewReader(ctx, path.Join(tenant, id, name), nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read a file of the bucket: %w", err)
	}
	return reader, nil
}

// Remove removes all that there is of a tenant's execution, or of the tenant when id is empty.
func (b *Blobs) Remove(ctx context.Context, tenant, id string) error {
	if tenant == "" {
		return errors.New("whose files are to be removed is not said")
	}
	if b.folder != "" {
		return os.RemoveAll(filepath.Join(b.folder, tenant, id))
	}
	list := b.bucket.List(&blob.ListOptions{Prefix: path.Join(tenant, id) + "/"})
	for {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = b.bucket.Delete(ctx, object.Key)
		}
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return fmt.Errorf("remove files of the bucket: %w", err)
		}
	}
}

// Each calls visit with every execution that has something in the bucket.
func (b *Blobs) Each(ctx context.Context, visit func(tenant, id string) error) error {
	return b.eachIn(ctx, "", func(tenant string) error {
		return b.eachIn(ctx, tenant+"/", func(id string) error { return visit(tenant, id) })
	})
}

// eachIn calls visit with the names of what is one level below a prefix.
func (b *Blobs) eachIn(ctx context.Context, prefix string, visit func(name string) error) error {
	if b.folder != "" { // its driver reads all for each page
		entries, err := os.ReadDir(filepath.Join(b.folder, filepath.FromSlash(prefix)))
		for _, entry := range entries {
			if err == nil && entry.Name() != ownerKey {
				err = visit(entry.Name())
			}
		}
		return err
	}
	list := b.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
	for {
		object, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && object.Key != ownerKey {
			err = visit(strings.Trim(strings.TrimPrefix(object.Key, prefix), "/"))
		}
		if err != nil {
			return err
		}
	}
}
