import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span as a collector receives it; ids in hexadecimal. */
export type ReceivedSpan = {
  readonly traceId: string;
  readonly id: string;
  /** "" for the root. */
  readonly parent: string;
  readonly name: string;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly attributes: Readonly<Record<string, string>>;
  readonly service: string;
  readonly failed: boolean;
};

export type Receiver = { readonly url: string; readonly spans: ReceivedSpan[]; close(): void };

/** A collector for traces over OTLP (http/protobuf), at `/v1/traces`. */
export async function startReceiver(): Promise<Receiver> {
  const spans: ReceivedSpan[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => {
      if (request.url === "/v1/traces") spans.push(...spansOf(Buffer.concat(chunks)));
      response.writeHead(200, { "Content-Type": "application/x-protobuf" }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, spans, close: () => server.close() };
}

type Field = { readonly number: number; readonly bytes: Buffer; readonly value: bigint };

/** The fields of a protobuf message. Source: https://protobuf.dev/programming-guides/encoding */
function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message[at++]!;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.length) {
    const key = varint();
    const number = Number(key >> 3n);
    const kind = Number(key & 7n);
    if (kind === 0) fields.push({ number, bytes: Buffer.alloc(0), value: varint() });
    else {
      const length = kind === 2 ? Number(varint()) : kind === 1 ? 8 : 4;
      fields.push({ number, bytes: message.subarray(at, at + length), value: 0n });
      at += length;
    }
  }
  return fields;
}

const parts = (message: Buffer, number: number) => fieldsOf(message).filter((field) => field.number === number);
const part = (message: Buffer, number: number) => parts(message, number)[0]?.bytes ?? Buffer.alloc(0);

/** KeyValue messages: text values, and numbers as text. */
const attributesOf = (message: Buffer, number: number) =>
  Object.fromEntries(
    parts(message, number).map(({ bytes }) => {
      const [value] = fieldsOf(part(bytes, 2));
      return [part(bytes, 1).toString(), value!.number === 1 ? value!.bytes.toString() : String(value!.value)];
    }),
  );

/** Source: opentelemetry-proto, trace.proto: ExportTraceServiceRequest → ResourceSpans → ScopeSpans → Span. */
const spansOf = (request: Buffer): ReceivedSpan[] =>
  parts(request, 1).flatMap(({ bytes: ofResource }) => {
    const service = attributesOf(part(ofResource, 1), 1)["service.name"] ?? "";
    const spans = parts(ofResource, 2).flatMap(({ bytes: ofScope }) => parts(ofScope, 2));
    return spans.map(({ bytes }) => ({
      traceId: part(bytes, 1).toString("hex"),
      id: part(bytes, 2).toString("hex"),
      parent: part(bytes, 4).toString("hex"),
      name: part(bytes, 5).toString(),
      start: part(bytes, 7).readBigUInt64LE(),
      attributes: attributesOf(bytes, 9),
      service,
      failed: parts(part(bytes, 15), 3).some(({ value }) => value === 2n),
    }));
  });
