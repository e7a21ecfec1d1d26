package example;

import dev.godwit.GodwitClient;
import dev.godwit.ListenOptions;
import dev.godwit.Listening;
import java.util.concurrent.TimeUnit;

/** Prints what comes for a recipient: arguments are the server and the recipient. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        try (GodwitClient client = new GodwitClient.Builder(args[0]).build();
                Listening listening = client.start(args[1], new ListenOptions(), (delivery, n) -> System.out.println(n.getTitle()))) {
            listening.await(1, TimeUnit.HOURS);
        }
    }
}
