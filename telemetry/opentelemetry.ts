import type { IncomingHttpHeaders } from "node:http";
import {
  type Context,
  DiagLogLevel,
  defaultTextMapGetter,
  diag,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from "@opentelemetry/api";
import { getNumberFromEnv, getStringFromEnv, W3CTraceContextPropagator } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Attributes, Span, Tracer } from "./span.ts";

/** A variable of OpenTelemetry with a value that is not supported. */
export class TracingError extends Error {}

const SERVICE_NAME = "content-service";

/**
 * Sends traces to a collector over OTLP (http/protobuf). Configured by the standard variables: OTEL_EXPORTER_OTLP_…,
 * OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and OTEL_BSP_…. Throws TracingError.
 * `onFailure` is called when traces cannot be sent.
 * Source: OpenTelemetry specification, "Environment Variable Specification".
 */
export function createTracer(onFailure: (message: string) => void): Tracer {
  rejectUnsupported();
  // Such as a collector that does not respond.
  const ignore = () => {};
  diag.setLogger(
    { error: onFailure, warn: onFailure, info: ignore, debug: ignore, verbose: ignore },
    DiagLogLevel.WARN,
  );
  const named = resourceFromAttributes({ "service.name": SERVICE_NAME });
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(named)
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: samplerOf(getStringFromEnv("OTEL_TRACES_SAMPLER"), getNumberFromEnv("OTEL_TRACES_SAMPLER_ARG")),
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), ...batchOptions() })],
  });
  const tracer = provider.getTracer(SERVICE_NAME);
  const propagator = new W3CTraceContextPropagator();
  return {
    start(name: string, headers: IncomingHttpHeaders, attributes: Attributes): Span {
      const parent = propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      return new TracedSpan(tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent), parent, tracer);
    },
    close: () => provider.shutdown(),
  };
}

class TracedSpan implements Span {
  readonly traceId: string;
  readonly #span: OtelSpan;
  readonly #context: Context;
  readonly #tracer: OtelTracer;

  constructor(span: OtelSpan, parent: Context, tracer: OtelTracer) {
    this.#span = span;
    this.#context = trace.setSpan(parent, span);
    this.#tracer = tracer;
    this.traceId = span.spanContext().traceId;
  }

  get header(): string {
    const { spanId, traceFlags } = this.#span.spanContext();
    return `00-${this.traceId}-${spanId}-${(traceFlags & TraceFlags.SAMPLED).toString(16).padStart(2, "0")}`;
  }

  child(name: string, attributes: Attributes = {}, startTime?: number): Span {
    const options = { kind: SpanKind.INTERNAL, attributes, ...(startTime !== undefined && { startTime }) };
    return new TracedSpan(this.#tracer.startSpan(name, options, this.#context), this.#context, this.#tracer);
  }

  rename(name: string): void {
    this.#span.updateName(name);
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  fail(message: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message });
  }

  end(at?: number): void {
    this.#span.end(at);
  }
}

function rejectUnsupported(): void {
  const protocol =
    getStringFromEnv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? getStringFromEnv("OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== undefined && protocol !== "http/protobuf")
    throw new TracingError(`OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf (is "${protocol}")`);
  const exporter = getStringFromEnv("OTEL_TRACES_EXPORTER");
  if (exporter !== undefined && exporter !== "otlp")
    throw new TracingError(`OTEL_TRACES_EXPORTER must be otlp (is "${exporter}")`);
}

function samplerOf(name = "parentbased_always_on", ratio = 1): Sampler {
  const root = ROOT_SAMPLERS[name.replace(/^parentbased_/, "")]?.(ratio);
  if (!root)
    throw new TracingError(`OTEL_TRACES_SAMPLER must be one of ${Object.keys(ROOT_SAMPLERS)}, or parentbased_…`);
  return name.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

const ROOT_SAMPLERS: Readonly<Record<string, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
};

/** Source: OpenTelemetry specification, "Batch Span Processor". */
function batchOptions() {
  const given = {
    scheduledDelayMillis: getNumberFromEnv("OTEL_BSP_SCHEDULE_DELAY"),
    exportTimeoutMillis: getNumberFromEnv("OTEL_BSP_EXPORT_TIMEOUT"),
    maxQueueSize: getNumberFromEnv("OTEL_BSP_MAX_QUEUE_SIZE"),
    maxExportBatchSize: getNumberFromEnv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
