package tideline.stack;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;

/**
 * Runs a main class in a URLClassLoader: Hive 3.1 casts the loader of its classes to one, and since Java 9 that of the class path is none.
 *
 * <p>Usage: Launcher MAIN ARGS, with the class path in the variable CLASSPATH.
 */
public final class Launcher {
  private Launcher() {}

  public static void main(String[] args) throws Exception {
    String path = System.getenv("CLASSPATH");
    System.setProperty("java.class.path", path); // local jobs read it
    String[] entries = path.split(File.pathSeparator);
    URL[] urls = new URL[entries.length];
    for (int i = 0; i < entries.length; i++) urls[i] = new File(entries[i]).toURI().toURL();
    ClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    Object arguments = Arrays.copyOfRange(args, 1, args.length);
    Class.forName(args[0], true, loader).getMethod("main", String[].class).invoke(null, arguments);
  }
}
