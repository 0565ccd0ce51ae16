// Calls the interop server by grpc-js: client.cjs ADDRESS FEATURE...
//
// Prints `ok FEATURE`, or `fails FEATURE: WHY`.
"use strict";

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, ...features] = process.argv.slice(2);
const PLAIN = grpc.credentials.createInsecure();
const LIMITS = { "grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1 };
const SIZES = [31415, 9, 2653, 58979];
const REQUESTS = [27182, 8, 1828, 45904];
const TEXT = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
const STATUS = grpc.status;

const load = (file) => {
  const definition = loader.loadSync(`${process.env.PROTO}/${file}`, { keepCase: true, longs: Number, defaults: true });
  return grpc.loadPackageDefinition(definition);
};
const { testing } = load("testing.proto").grpc;
const { interop } = load("witness.proto").greenwave;
const client = new testing.TestService(address, PLAIN, LIMITS);

const within = (ms = 10000) => ({ deadline: Date.now() + ms });
const payload = (size) => ({ type: 0, body: Buffer.alloc(size) });
const request = (asked, sent) => ({ response_parameters: [{ size: asked }], payload: payload(sent) });

function check(holds, what) {
  if (!holds) throw new Error(typeof what === "string" ? what : JSON.stringify(what));
}

// A unary call, or one that streams its requests: the answer, its headers and its trailers.
function call(begin) {
  return new Promise((resolve, reject) => {
    const seen = {};
    const made = begin((error, answer) => (error ? reject(error) : setImmediate(() => resolve({ answer, ...seen }))));
    made.on("metadata", (headers) => (seen.headers = headers));
    made.on("status", (status) => (seen.trailers = status.metadata));
  });
}

const unary = (method, message, options = within(), metadata = new grpc.Metadata(), by = client) =>
  call((done) => by[method](message, metadata, options, done));

// All answers of a call that streams them, their headers and their trailers.
function answers(made) {
  return new Promise((resolve, reject) => {
    const seen = { lengths: [] };
    made.on("metadata", (headers) => (seen.headers = headers));
    made.on("data", (answer) => seen.lengths.push(answer.payload?.body.length ?? 0));
    made.on("error", reject);
    made.on("status", (status) => status.code === STATUS.OK && resolve({ ...seen, trailers: status.metadata }));
  });
}

async function refused(promise, code) {
  try {
    await promise;
  } catch (error) {
    check(error.code === code, `${error.code} ${error.details ?? error}`);
    return error;
  }
  throw new Error(`it succeeded, which should have been ${STATUS[code]}`);
}

function same(found, wanted) {
  check(JSON.stringify(found) === JSON.stringify(wanted), { found });
}

function echoed({ headers, trailers }) {
  same(headers.get("x-grpc-test-echo-initial"), ["test_initial_metadata_value"]);
  same(trailers.get("x-grpc-test-echo-trailing-bin"), [Buffer.from([0xab, 0xab, 0xab])]);
}

const unimplemented = (path) =>
  refused(
    call((done) => client.makeUnaryRequest(path, (it) => it, (it) => it, Buffer.alloc(0), within(), done)),
    STATUS.UNIMPLEMENTED,
  );

const tries = {
  async empty_unary() {
    same((await unary("EmptyCall", {})).answer, {});
  },

  async large_unary() {
    const { answer } = await unary("UnaryCall", { response_size: 314159, payload: payload(271828) });
    same(answer.payload.body.length, 314159);
  },

  async cacheable_unary() {
    const metadata = new grpc.Metadata({ cacheableRequest: true });
    metadata.set("x-user-ip", "1.2.3.4");
    const { answer } = await unary("CacheableUnaryCall", { response_size: 8 }, within(), metadata);
    same(answer.payload.body.length, 8);
  },

  async client_streaming() {
    const { answer } = await call((done) => {
      const made = client.StreamingInputCall(within(), done);
      REQUESTS.forEach((size) => made.write({ payload: payload(size) }));
      made.end();
      return made;
    });
    same(answer.aggregated_payload_size, 74922);
  },

  async server_streaming() {
    const parameters = SIZES.map((size) => ({ size }));
    same((await answers(client.StreamingOutputCall({ response_parameters: parameters }, within()))).lengths, SIZES);
  },

  async ping_pong() {
    const made = client.FullDuplexCall(within());
    let next = 0;
    const send = () => (next < SIZES.length ? made.write(request(SIZES[next], REQUESTS[next++])) : made.end());
    made.on("data", send);
    send();
    same((await answers(made)).lengths, SIZES);
  },

  async half_duplex() {
    const made = client.HalfDuplexCall(within());
    SIZES.forEach((size, at) => made.write(request(size, REQUESTS[at])));
    made.end();
    same((await answers(made)).lengths, SIZES);
  },

  async empty_stream() {
    const made = client.FullDuplexCall(within());
    made.end();
    same((await answers(made)).lengths, []);
  },

  async cancel_after_begin() {
    let made;
    const failed = refused(call((done) => (made = client.StreamingInputCall(within(), done))), STATUS.CANCELLED);
    setImmediate(() => made.cancel());
    await failed;
  },

  async cancel_after_first_response() {
    const made = client.FullDuplexCall(within());
    made.on("data", () => made.cancel());
    made.write(request(SIZES[0], REQUESTS[0]));
    await refused(answers(made), STATUS.CANCELLED);
  },

  async timeout_on_sleeping_server() {
    const made = client.FullDuplexCall(within(1));
    made.write({ payload: payload(27182) });
    await refused(answers(made), STATUS.DEADLINE_EXCEEDED);
  },

  async deadline() {
    const witness = new interop.Witness(address, PLAIN);
    const { answer } = await unary("Budget", {}, within(7000), new grpc.Metadata(), witness);
    check(answer.limited && answer.micros > 4e6 && answer.micros <= 7e6, answer);
    const { answer: free } = await unary("Budget", {}, {}, new grpc.Metadata(), witness);
    check(!free.limited, free);
    witness.close();
  },

  async expired() {
    await refused(unary("EmptyCall", {}, within(-1)), STATUS.DEADLINE_EXCEEDED);
  },

  async status_code_and_message() {
    const status = { code: 2, message: "test status message" };
    same((await refused(unary("UnaryCall", { response_status: status }), 2)).details, status.message);
    const made = client.FullDuplexCall(within());
    made.write({ response_status: status });
    made.end();
    same((await refused(answers(made), 2)).details, status.message);
  },

  async special_status_message() {
    const failed = await refused(unary("UnaryCall", { response_status: { code: 2, message: TEXT } }), 2);
    same(failed.details, TEXT);
  },

  async custom_metadata() {
    const metadata = new grpc.Metadata();
    metadata.set("x-grpc-test-echo-initial", "test_initial_metadata_value");
    metadata.set("x-grpc-test-echo-trailing-bin", Buffer.from([0xab, 0xab, 0xab]));
    echoed(await unary("UnaryCall", { response_size: 314159, payload: payload(271828) }, within(), metadata));
    const made = client.FullDuplexCall(metadata, within());
    made.write(request(SIZES[0], REQUESTS[0]));
    made.end();
    echoed(await answers(made));
  },

  unimplemented_method: () => unimplemented("/grpc.testing.TestService/UnimplementedCall"),
  unimplemented_service: () => unimplemented("/grpc.testing.UnimplementedService/UnimplementedCall"),

  async client_compressed_unary() {
    const message = { response_size: 314159, payload: payload(271828), expect_compressed: { value: true } };
    await refused(unary("UnaryCall", message), STATUS.INVALID_ARGUMENT);
    const gzip = new testing.TestService(address, PLAIN, { ...LIMITS, "grpc.default_compression_algorithm": 2 });
    const { answer } = await unary("UnaryCall", message, within(), new grpc.Metadata(), gzip);
    gzip.close();
    same(answer.payload.body.length, 314159);
    message.expect_compressed.value = false;
    same((await unary("UnaryCall", message)).answer.payload.body.length, 314159);
  },

  async client_compressed_streaming() {
    const gzip = new testing.TestService(address, PLAIN, { ...LIMITS, "grpc.default_compression_algorithm": 2 });
    const { answer } = await call((done) => {
      const made = gzip.StreamingInputCall(within(), done);
      made.write({ payload: payload(27182), expect_compressed: { value: true } });
      made.end();
      return made;
    });
    gzip.close();
    same(answer.aggregated_payload_size, 27182);
  },

  async health_check() {
    const path = "/grpc.health.v1.Health/Check";
    const ask = (name) => {
      const message = name ? Buffer.concat([Buffer.from([10, name.length]), Buffer.from(name)]) : Buffer.alloc(0);
      return call((done) => client.makeUnaryRequest(path, (it) => it, (it) => it, message, within(), done));
    };
    for (const name of ["", "grpc.testing.TestService"]) same([...(await ask(name)).answer], [8, 1]);
    await refused(ask("x"), STATUS.NOT_FOUND);
  },

  async health_watch() {
    const path = "/grpc.health.v1.Health/Watch";
    const watch = client.makeServerStreamRequest(path, (it) => it, (it) => it, Buffer.alloc(0), within());
    const first = await new Promise((resolve, reject) => {
      watch.on("data", resolve);
      watch.on("error", reject);
    });
    same([...first], [8, 1]);
    watch.cancel();
  },

  async many_at_once() {
    const sizes = Array.from({ length: 500 }, (_, number) => number);
    const all = await Promise.all(sizes.map((size) => unary("UnaryCall", { response_size: size })));
    same(all.map(({ answer }) => answer.payload.body.length), sizes);
  },

  async many_connections() {
    const one = async (number) => {
      const own = new testing.TestService(address, PLAIN, { "grpc.use_local_subchannel_pool": 1 });
      const { answer } = await unary("UnaryCall", { response_size: number }, within(), new grpc.Metadata(), own);
      own.close();
      return answer.payload.body.length;
    };
    const numbers = Array.from({ length: 50 }, (_, number) => number);
    same(await Promise.all(numbers.map(one)), numbers);
  },
};

// What nobody waits for fails the feature that is tried.
let interrupt = () => {};
process.on("uncaughtException", (error) => interrupt(error));

async function main() {
  for (const feature of features) {
    try {
      await Promise.race([tries[feature](), new Promise((_, reject) => (interrupt = reject))]);
      console.log(`ok ${feature}`);
    } catch (error) {
      const why = error.code === undefined ? error.message : `${STATUS[error.code]} ${JSON.stringify(error.details)}`;
      console.log(`fails ${feature}: ${why}`);
    }
  }
  client.close();
  process.exit(0);
}

main();
