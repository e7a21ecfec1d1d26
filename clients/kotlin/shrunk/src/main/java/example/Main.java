package example;

import dev.godwit.GodwitClient;
import dev.godwit.ListenOptions;
import dev.godwit.Listening;
import dev.godwit.grpc.GrpcTransport;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Prints what comes for a recipient first: arguments are the server, the recipient and perhaps the gRPC port. */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        GodwitClient.Builder builder = new GodwitClient.Builder(args[0]);
        if (args.length > 2) builder.transport(new GrpcTransport("127.0.0.1", Integer.parseInt(args[2]), true));
        CountDownLatch came = new CountDownLatch(1);
        try (GodwitClient client = builder.build()) {
            Listening listening = client.start(args[1], new ListenOptions(), (delivery, n) -> {
                System.out.println(n.getTitle() + " " + n.getText());
                came.countDown();
            });
            came.await(1, TimeUnit.MINUTES);
            listening.close();
        }
        System.exit(0);
    }
}
