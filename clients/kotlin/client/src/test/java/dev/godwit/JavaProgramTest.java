package dev.godwit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.godwit.backend.ObjectCalls;
import dev.godwit.backend.Publication;
import dev.godwit.backend.Publishing;
import dev.godwit.backend.PutResult;
import dev.godwit.backend.Receipt;
import dev.godwit.backend.Status;
import dev.godwit.messaging.BlockingHandlers;
import dev.godwit.messaging.Messaging;
import dev.godwit.messaging.Objects;
import dev.godwit.support.Server;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The library as a Java program uses it. */
class JavaProgramTest {
    private final BlockingQueue<String> shown = new ArrayBlockingQueue<>(10);

    private void show(Notification notification) {
        shown.add(notification.getTitle());
    }

    // What the README shows.
    void readme(Publication publication) throws Exception {
        GodwitClient client = new GodwitClient.Builder("http://localhost:8080").apiKey("dev").build();
        Listening listening = client.start("driver-42", new ListenOptions(), (delivery, notification) -> show(notification));
        Receipt receipt = Blocking.get(done -> Publishing.publish(client, publication, done));
        Status status = Blocking.get(10, TimeUnit.SECONDS, done -> Publishing.awaitSettled(client, receipt.getId(), "driver-42", done));
        listening.close();
    }

    @Test
    void listensAndPublishes() throws Exception {
        try (Server server = new Server("--dev");
                GodwitClient client = new GodwitClient.Builder(server.getUrl()).apiKey("dev").build()) {
            Objects objects = new Objects("region-1");
            BlockingQueue<Long> versions = new ArrayBlockingQueue<>(10);
            objects.register(new String[] {"camera-config"}, BlockingHandlers.signals(signal -> versions.add(signal.getUnknown() ? -1 : signal.getVersion())));
            ListenOptions options = new ListenOptions();
            options.setDevice("phone");
            Messaging.setObjects(options, objects);
            Messaging.setRequests(options, BlockingHandlers.requests(request -> new Answer("made " + request.getText())));
            try (Listening listening = client.start("driver-42", options, (delivery, notification) -> show(notification))) {
                Publication publication = new Publication("driver-42");
                publication.setTitle("New ride");
                Receipt receipt = Blocking.get(done -> Publishing.publish(client, publication, done));
                assertEquals("New ride", shown.poll(4, TimeUnit.MINUTES));
                assertEquals("acked", Blocking.<Status>get(4, TimeUnit.MINUTES, done -> Publishing.awaitSettled(client, receipt.getId(), "driver-42", done)).getStatus());
                assertTrue(Blocking.<PutResult>get(done -> ObjectCalls.putObject(client, "region-1", "camera-config", new byte[0], "", 7, done)).getChanged());
                assertEquals(-1, versions.poll(4, TimeUnit.MINUTES)); // nobody had put it
                assertEquals(7, versions.poll(4, TimeUnit.MINUTES));
                assertEquals("running", listening.await(0, TimeUnit.SECONDS) ? "ended" : "running");
            }
        }
    }
}
