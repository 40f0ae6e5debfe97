import type { Parameter, Written } from "../../../db/sql.ts";
import type { Statement } from "../../../db/transaction/transaction.ts";
import { writeArray } from "../../../db/wire/array-text.ts";
import type { Body } from "../request.ts";

/** The parts of a request that supply the parameters of a statement. */
export type Input = {
  readonly values: readonly string[];
  readonly body: Extract<Body, { kind: "text" }> | { readonly kind: "json"; readonly text: string } | null;
};

/** Adds the values of a request to the SQL that all requests of its shape share. */
export const writeStatement = ({ text, parameters }: Written, request: Input): Statement => ({
  text,
  values: parameters.map((parameter) => textOf(parameter, request)),
  binary: true,
});

function textOf(parameter: Parameter, { values, body }: Input): string {
  switch (parameter.kind) {
    case "value":
      return values[parameter.index]!;
    case "values":
      return writeArray(parameter.indexes.map((index) => values[index]!));
    case "constant":
      return parameter.text;
    case "body":
      if (body!.kind === "json") return body!.text;
      return body!.type === "application/octet-stream" ? `\\x${body!.bytes.toString("hex")}` : body!.bytes.toString();
  }
}
