package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.godwit.Blocking;
import dev.godwit.GodwitClient;
import dev.godwit.backend.Publication;
import dev.godwit.backend.Publishing;
import dev.godwit.backend.Receipt;
import dev.godwit.backend.Status;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A program works after R8 has removed what it does not use and renamed the rest, as Android's build tools have it do to an app. */
class ShrunkTest {
    @TempDir Path folder;

    /** What each library may add to an app, in bytes, before R8 takes out what the app does not use. */
    private static final Map<String, Long> LARGEST = Map.of("godwit-client-0", 90_000L, "godwit-push", 21_000L, "godwit-messaging", 43_000L);

    private static final List<String> TOOLS = List.of("r8-", "godwit-backend", "junit", "opentest4j", "apiguardian", "jspecify", "surefire", "test-classes");

    /** The program and its libraries, without what tests and builds it. */
    private static List<Path> program() {
        List<Path> list = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            Path path = Path.of(entry);
            if (TOOLS.stream().noneMatch(t -> path.getFileName().toString().startsWith(t))) list.add(path);
        }
        return list;
    }

    /** Rules that libraries bring along, which Android's build tools find by themselves. */
    private void rules(Path jar, Path to) throws IOException {
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (var e : zip.stream().filter(e -> e.getName().matches("META-INF/(proguard|com.android.tools/r8)/.*\\.pro")).toList()) {
                String text = new String(zip.getInputStream(e).readAllBytes(), StandardCharsets.UTF_8);
                Files.writeString(to, "# " + jar.getFileName() + " " + e.getName() + "\n" + text + "\n", StandardOpenOption.APPEND);
            }
        }
    }

    /** Runs R8. */
    private Path shrink() throws Exception {
        Path rules = Files.createFile(folder.resolve("rules.pro"));
        Files.writeString(rules, "-keep class example.Main { public static void main(java.lang.String[]); }\n");
        // R8 makes numbers of these enums' values, and writes class files for it that the JVM refuses. Apps get no class files.
        Files.writeString(rules, "-keep enum io.grpc.okhttp.internal.** { *; }\n", StandardOpenOption.APPEND);
        List<String> command = new ArrayList<>(List.of(java(), "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "com.android.tools.r8.R8"));
        Path out = folder.resolve("shrunk.jar");
        command.addAll(List.of("--release", "--classfile", "--output", out.toString(), "--lib", System.getProperty("java.home"), "--pg-conf", rules.toString()));
        for (Path entry : program()) {
            if (Files.isDirectory(entry)) {
                try (var files = Files.walk(entry)) {
                    files.filter(f -> f.toString().endsWith(".class")).forEach(f -> command.add(f.toString()));
                }
            } else {
                rules(entry, rules);
                command.add(entry.toString());
            }
        }
        assertEquals("", run(command));
        return out;
    }

    @Test
    void whatEachLibraryAddsToAnAppIsSmall() throws Exception {
        for (var e : LARGEST.entrySet()) {
            long size = added(e.getKey());
            System.out.println(e.getKey() + " adds " + size + " bytes to an app that R8 does not shrink");
            assertTrue(size <= e.getValue(), size + " bytes are more than " + e.getValue());
        }
    }

    /** The bytes of DEX that a library becomes. */
    private long added(String name) throws Exception {
        Path library = program().stream().filter(p -> p.getFileName().toString().startsWith(name)).findFirst().orElseThrow();
        Path out = folder.resolve(name + ".zip");
        List<String> command = new ArrayList<>(List.of(java(), "-Xmx1g", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"), "com.android.tools.r8.D8"));
        command.addAll(List.of("--release", "--min-api", "23", "--output", out.toString(), "--lib", System.getProperty("java.home")));
        for (Path entry : program()) if (!entry.equals(library) && !Files.isDirectory(entry)) command.addAll(List.of("--classpath", entry.toString()));
        command.add(library.toString());
        assertEquals("", run(command));
        return Files.size(out);
    }

    private static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /** Runs a command to its end and returns what it says of errors. */
    private static String run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return process.waitFor() == 0 ? "" : said + "\n" + process.exitValue();
    }

    private Process serve(Path data) throws Exception {
        List<String> command = List.of(System.getenv("GODWIT_BINARY"), "serve", "--dev", "--data", data.toString(), "--http-addr", "127.0.0.1:0",
                "--grpc-addr", "127.0.0.1:0", "--min-free", "1MB");
        Process server = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(folder.resolve("server.log").toFile()).start();
        long end = System.nanoTime() + TimeUnit.MINUTES.toNanos(2);
        while (!Files.exists(data.resolve("addresses.json"))) {
            assertTrue(server.isAlive() && System.nanoTime() < end, "the server does not start");
            Thread.sleep(10);
        }
        return server;
    }

    private static String address(Path data, String name) throws IOException {
        Matcher m = Pattern.compile("\"" + name + "\":\\s*\"([^\"]+)\"").matcher(Files.readString(data.resolve("addresses.json")));
        assertTrue(m.find());
        return m.group(1);
    }

    @Test
    void listensOverWebSocketAndGrpc() throws Exception {
        Path jar = shrink();
        Path data = Files.createDirectory(folder.resolve("data"));
        Process server = serve(data);
        try {
            String url = "http://" + address(data, "http");
            listens(jar, url, "driver-1");
            listens(jar, url, "driver-2", address(data, "grpc").replaceAll(".*:", ""));
        } finally {
            server.destroyForcibly().waitFor();
        }
    }

    private void listens(Path jar, String url, String recipient, String... more) throws Exception {
        Publication publication = new Publication(recipient);
        publication.setTitle("New ride");
        publication.setData("{\"fare\":120}".getBytes(StandardCharsets.UTF_8));
        try (GodwitClient client = new GodwitClient.Builder(url).apiKey("dev").build()) {
            Receipt receipt = Blocking.get(done -> Publishing.publish(client, publication, done));
            List<String> command = new ArrayList<>(List.of(java(), "-cp", jar.toString(), "example.Main", url, recipient));
            command.addAll(List.of(more));
            Process program = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            try (BufferedReader out = new BufferedReader(new InputStreamReader(program.getInputStream(), StandardCharsets.UTF_8))) {
                assertEquals("New ride {\"fare\":120}", out.readLine());
            }
            assertEquals(0, program.waitFor());
            assertEquals("acked", Blocking.<Status>get(done -> Publishing.status(client, receipt.getId(), recipient, done)).getStatus());
        }
    }
}
