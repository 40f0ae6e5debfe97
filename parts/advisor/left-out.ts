import type { Finding } from "../../db/findings/finding.ts";
import { buildSchema, notBuilt, type SchemaOptions } from "../../graphql/schema/schema.ts";

/** What the schema leaves out. If the schema cannot be built, the error is the only finding. */
export const findLeftOut = (options: SchemaOptions): Promise<readonly Finding[]> =>
  buildSchema(options).then(
    ({ omissions }) => omissions,
    (error: Error) => [notBuilt(error)],
  );
