import { type Choice, choose } from "../existing/choice.ts";
import { type Preparation, preparationFor } from "../existing/preparation.ts";
import type { Survey } from "../existing/survey.ts";
import { type Dump, dumpSchema } from "./dump.ts";
import { type SignIn, writeSignIn } from "./sign-in.ts";

/** What is known about a database, and how the service is used with it. */
export type Plan = {
  readonly survey: Survey;
  readonly choice: Choice;
  readonly signIn: SignIn;
  readonly dump: Dump;
  /** What must be run before the start. */
  readonly preparation: readonly Preparation[];
};

/** Plans the use of the database at `url`, which is only read. */
export async function planFor(url: string, survey: Survey): Promise<Plan> {
  const choice = choose(survey);
  return {
    survey,
    choice,
    signIn: writeSignIn(survey, choice),
    dump: await dumpSchema(url, survey),
    preparation: preparationFor(survey, choice),
  };
}
