package tideline.stack;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local file system as a stand-in for HDFS. It differs from Hadoop's in three ways:
 *
 * <ul>
 *   <li>files have a checksum (the MD5 of their bytes), without which Hive's file lists carry none and the change manager,
 *       which names files by it, does not work;
 *   <li>a path with an authority (file://name/dir) means the same as one without, because Hive's replication of external
 *       tables insists on one;
 *   <li>modes and owners go through java.nio: without Hadoop's native library each mkdir, create and status would start a
 *       chmod or ls process, which makes everything two to three times slower.
 * </ul>
 */
public final class ChecksummedLocalFileSystem extends LocalFileSystem {
  private static final int BUFFER_BYTES = 1 << 16;

  public ChecksummedLocalFileSystem() {
    super(new Raw());
  }

  @Override
  protected void checkPath(Path path) {
    if (!"file".equals(path.toUri().getScheme())) super.checkPath(path);
  }

  @Override
  public FileChecksum getFileChecksum(Path file) throws IOException {
    return getFileStatus(file).isFile() ? md5(file) : null;
  }

  @Override
  public FileChecksum getFileChecksum(Path file, long length) throws IOException {
    return getFileChecksum(file);
  }

  private FileChecksum md5(Path file) throws IOException {
    try (InputStream in = open(file)) {
      MessageDigest digest = MessageDigest.getInstance("MD5");
      byte[] buffer = new byte[BUFFER_BYTES];
      for (int size; (size = in.read(buffer)) > 0; ) digest.update(buffer, 0, size);
      return new Md5(digest.digest());
    } catch (NoSuchAlgorithmException e) {
      throw new IOException(e);
    }
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    protected void checkPath(Path path) {
      if (!"file".equals(path.toUri().getScheme())) super.checkPath(path);
    }

    @Override
    public void setOwner(Path path, String user, String group) {
      // one user owns everything here
    }

    @Override
    public void setPermission(Path path, FsPermission mode) throws IOException {
      String symbols = mode.getUserAction().SYMBOL + mode.getGroupAction().SYMBOL + mode.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
      File file = pathToFile(path);
      PosixFileAttributes found;
      try {
        found = Files.readAttributes(file.toPath(), PosixFileAttributes.class);
      } catch (NoSuchFileException e) {
        throw new FileNotFoundException("File " + path + " does not exist");
      }
      var mode = FsPermission.valueOf((found.isDirectory() ? "d" : "-") + PosixFilePermissions.toString(found.permissions()));
      return new FileStatus(found.size(), found.isDirectory(), 1, getDefaultBlockSize(path), found.lastModifiedTime().toMillis(),
          found.lastAccessTime().toMillis(), mode, found.owner().getName(), found.group().getName(),
          path.makeQualified(getUri(), getWorkingDirectory()));
    }
  }

  /** Public, because Hadoop makes such objects by reflection. */
  public static final class Md5 extends FileChecksum {
    private static final int SIZE_BYTES = 16;
    private final byte[] value;

    public Md5() {
      this(new byte[SIZE_BYTES]);
    }

    Md5(byte[] value) {
      this.value = value;
    }

    @Override
    public String getAlgorithmName() {
      return "MD5";
    }

    @Override
    public int getLength() {
      return value.length;
    }

    @Override
    public byte[] getBytes() {
      return value;
    }

    @Override
    public void write(DataOutput out) throws IOException {
      out.write(value);
    }

    @Override
    public void readFields(DataInput in) throws IOException {
      in.readFully(value);
    }
  }
}
