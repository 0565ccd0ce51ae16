import com.google.protobuf.ByteString;
import com.google.protobuf.Empty;
import com.google.protobuf.UnknownFieldSet;
import com.google.protobuf.UnknownFieldSet.Field;
import greenwave.interop.Witness;
import grpc.testing.TestService;
import grpc.testing.UnimplementedService;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.StatusRpcException;
import org.apache.dubbo.rpc.TriRpcStatus;
import org.apache.dubbo.rpc.model.ApplicationModel;

/**
 * Calls the interop server by Dubbo's Triple: Client ADDRESS FEATURE...
 *
 * <p>Prints `ok FEATURE`, or `fails FEATURE: WHY`. The fields of messages go by their numbers in testing.proto.
 */
public final class Client {
    private static final int[] SIZES = {31415, 9, 2653, 58979};
    private static final int[] REQUESTS = {27182, 8, 1828, 45904};
    private static final String TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP \uD83D\uDE08\t\n";
    private static final long LIMIT = 10;

    private final String address;
    private final TestService service;

    private Client(String address) {
        this.address = address;
        service = reference(TestService.class, 10_000);
    }

    public static void main(String[] words) {
        LogManager.getLogManager().reset();
        // Otherwise Dubbo calls 127.0.0.1 by another address of the machine, where the server doesn't listen.
        System.setProperty("dubbo.network.interface.ignored", ".*");
        ApplicationConfig application = new ApplicationConfig("interop");
        application.setQosEnable(false);
        ApplicationModel.defaultModel().getApplicationConfigManager().setApplication(application);
        Client client = new Client(words[0]);
        for (String feature : List.of(words).subList(1, words.length)) {
            try {
                client.attempt(feature);
                System.out.println("ok " + feature);
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause.getCause() != null && !(cause instanceof StatusRpcException)) {
                    cause = cause.getCause();
                }
                System.out.println("fails " + feature + ": " + String.valueOf(cause).replaceAll("\\s+", " "));
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void attempt(String feature) throws Exception {
        switch (feature) {
            case "empty_unary" -> check(service.EmptyCall(Empty.getDefaultInstance()).getSerializedSize() == 0, "not empty");
            case "large_unary" -> same(length(service.UnaryCall(message(number(2, 314159), bytes(3, payload(271828))))), 314159);
            case "client_streaming" -> {
                Answers answers = new Answers();
                StreamObserver<Empty> requests = service.StreamingInputCall(answers);
                for (int size : REQUESTS) {
                    requests.onNext(message(bytes(1, payload(size))));
                }
                requests.onCompleted();
                List<Empty> all = answers.all();
                check(all.size() == 1 && value(all.get(0), 1) == 74922, all.toString());
            }
            case "server_streaming" -> {
                Answers answers = new Answers();
                service.StreamingOutputCall(message(asks(SIZES)), answers);
                lengths(answers.all(), SIZES);
            }
            case "ping_pong" -> {
                Answers answers = new Answers();
                StreamObserver<Empty> requests = service.FullDuplexCall(answers);
                for (int turn = 0; turn < SIZES.length; turn++) {
                    requests.onNext(message(asks(SIZES[turn]), bytes(3, payload(REQUESTS[turn]))));
                    answers.until(turn + 1);
                }
                requests.onCompleted();
                lengths(answers.all(), SIZES);
            }
            case "deadline" -> {
                Empty left = reference(Witness.class, 7_000).Budget(Empty.getDefaultInstance());
                long micros = value(left, 2);
                check(value(left, 1) == 1 && micros > 4_000_000 && micros <= 7_200_000, micros + " us are left");
            }
            case "expired" -> {
                // A millisecond is the least there is: one of many large answers takes longer.
                TestService hurried = reference(TestService.class, 1);
                refused(() -> {
                    for (int call = 0; call < 200; call++) {
                        hurried.UnaryCall(message(number(2, 16_000_000)));
                    }
                }, TriRpcStatus.Code.DEADLINE_EXCEEDED);
            }
            case "special_status_message" -> {
                UnknownFieldSet status = fields(number(1, 2), bytes(2, ByteString.copyFromUtf8(TEXT)));
                String said = refused(() -> service.UnaryCall(message(bytes(7, status.toByteString()))), TriRpcStatus.Code.UNKNOWN);
                check(said.contains(TEXT.strip()), said);
            }
            case "unimplemented_service" -> {
                UnimplementedService none = reference(UnimplementedService.class, 10_000);
                refused(() -> none.UnimplementedCall(Empty.getDefaultInstance()), TriRpcStatus.Code.UNIMPLEMENTED);
            }
            case "many_at_once" -> {
                var threads = Executors.newFixedThreadPool(100);
                List<Future<Integer>> calls = new ArrayList<>();
                for (int size = 0; size < 500; size++) {
                    int asked = size;
                    calls.add(threads.submit(() -> length(service.UnaryCall(message(number(2, asked))))));
                }
                for (int size = 0; size < 500; size++) {
                    same(calls.get(size).get(LIMIT, TimeUnit.SECONDS), size);
                }
                threads.shutdownNow();
            }
            default -> throw new IllegalArgumentException("Dubbo has no way to try " + feature);
        }
    }

    private <T> T reference(Class<T> type, int timeoutMillis) {
        ReferenceConfig<T> reference = new ReferenceConfig<>();
        reference.setInterface(type);
        reference.setUrl("tri://" + address);
        reference.setTimeout(timeoutMillis);
        reference.setRetries(0);
        return reference.get();
    }

    /** The answers of a stream as they come. */
    private static final class Answers implements StreamObserver<Empty> {
        private final List<Empty> came = Collections.synchronizedList(new ArrayList<>());
        private final CompletableFuture<Void> end = new CompletableFuture<>();

        @Override
        public void onNext(Empty answer) {
            synchronized (came) {
                came.add(answer);
                came.notifyAll();
            }
        }

        @Override
        public void onError(Throwable error) {
            end.completeExceptionally(error);
            synchronized (came) {
                came.notifyAll();
            }
        }

        @Override
        public void onCompleted() {
            end.complete(null);
        }

        private void until(int count) throws Exception {
            long limit = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
            synchronized (came) {
                while (came.size() < count && !end.isCompletedExceptionally() && System.nanoTime() < limit) {
                    came.wait(100);
                }
            }
            if (end.isCompletedExceptionally()) {
                end.get();
            }
            check(came.size() >= count, came.size() + " answers");
        }

        private List<Empty> all() throws Exception {
            end.get(LIMIT, TimeUnit.SECONDS);
            return came;
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    private static String refused(Step step, TriRpcStatus.Code code) throws Exception {
        try {
            step.run();
        } catch (Exception error) {
            Throwable cause = error;
            while (cause.getCause() != null && !(cause instanceof StatusRpcException)) {
                cause = cause.getCause();
            }
            if (cause instanceof StatusRpcException failed) {
                check(failed.getStatus().code == code, failed.getStatus().code + ": " + failed.getMessage());
                return String.valueOf(failed.getStatus().description);
            }
            // Its own timer says so in another way.
            boolean late = error instanceof RpcException ended && ended.isTimeout();
            check(late && code == TriRpcStatus.Code.DEADLINE_EXCEEDED, error.toString());
            return error.getMessage();
        }
        throw new IllegalStateException("it succeeded, which should have been " + code);
    }

    private record Numbered(int number, Field field) {}

    private static Numbered number(int number, long value) {
        return new Numbered(number, Field.newBuilder().addVarint(value).build());
    }

    private static Numbered bytes(int number, ByteString value) {
        return new Numbered(number, Field.newBuilder().addLengthDelimited(value).build());
    }

    private static UnknownFieldSet fields(Numbered... all) {
        UnknownFieldSet.Builder fields = UnknownFieldSet.newBuilder();
        for (Numbered one : all) {
            fields.mergeField(one.number, one.field);
        }
        return fields.build();
    }

    private static Empty message(Numbered... all) {
        return Empty.newBuilder().setUnknownFields(fields(all)).build();
    }

    private static ByteString payload(int size) {
        return fields(bytes(2, ByteString.copyFrom(new byte[size]))).toByteString();
    }

    /** The parameters of a stream's answers: one for each size. */
    private static Numbered asks(int... sizes) {
        Field.Builder all = Field.newBuilder();
        for (int size : sizes) {
            all.addLengthDelimited(fields(number(1, size)).toByteString());
        }
        return new Numbered(2, all.build());
    }

    private static long value(Empty message, int number) {
        List<Long> values = message.getUnknownFields().getField(number).getVarintList();
        return values.isEmpty() ? 0 : values.get(0);
    }

    /** How long the payload of an answer is. */
    private static int length(Empty answer) throws Exception {
        List<ByteString> payloads = answer.getUnknownFields().getField(1).getLengthDelimitedList();
        if (payloads.isEmpty()) {
            return 0;
        }
        List<ByteString> bodies = UnknownFieldSet.parseFrom(payloads.get(0)).getField(2).getLengthDelimitedList();
        return bodies.isEmpty() ? 0 : bodies.get(0).size();
    }

    private static void lengths(List<Empty> answers, int[] wanted) throws Exception {
        same(answers.size(), wanted.length);
        for (int at = 0; at < wanted.length; at++) {
            same(length(answers.get(at)), wanted[at]);
        }
    }

    private static void same(int found, int wanted) {
        check(found == wanted, found + " is not " + wanted);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
