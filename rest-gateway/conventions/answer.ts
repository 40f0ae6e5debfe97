export type Header = readonly [name: string, value: string];

/** What a REST endpoint answers; whether the client has it already is looked at when it is sent. */
export type RestAnswer = {
  readonly status: number;
  readonly headers: readonly Header[];
  /** JSON text; null is no body. */
  readonly body: Buffer | null;
  /** `"v1-734"`, quotes included; null where there is none. */
  readonly etag: string | null;
  readonly lastModified: Date | null;
};

export const answerOf = (status: number, body: Buffer | null = null, headers: readonly Header[] = []): RestAnswer => ({
  status,
  headers,
  body,
  etag: null,
  lastModified: null,
});
