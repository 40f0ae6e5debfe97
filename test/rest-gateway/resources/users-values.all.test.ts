import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { allUsers } from "./users.ts";

const client = useResources();
const { failure } = client;
const GRACE = { name: "Grace", email: "grace@test.example" };

describe("an invalid value is rejected, and nothing is written", () => {
  let before: string;
  beforeEach(async () => {
    before = await allUsers(client);
  });
  afterEach(async () => {
    expect(await allUsers(client)).toBe(before);
  });

  const NAME = "name must have 1 to 200 characters";
  const EMAIL = "email must be a valid address";
  const AGE = "age must be from 0 to 150";
  const ODD = "must not contain NUL or an unpaired surrogate";
  test.each<[given: object, message: string]>([
    [{ name: null }, "name must not be null"],
    [{ name: {} }, "name must be a text"],
    [{ name: "" }, NAME],
    [{ name: "👩".repeat(201) }, NAME],
    [{ name: "a".repeat(1_000_000) }, NAME],
    [{ name: "Gra\0ce" }, `name ${ODD}`],
    [{ name: "Gra\ud800ce" }, `name ${ODD}`],
    [{ name: "\udc00" }, `name ${ODD}`],
    [{ email: null }, "email must not be null"],
    [{ email: ["a"] }, "email must be a text"],
    [{ email: "" }, EMAIL],
    [{ email: "grace" }, EMAIL],
    [{ email: "grace@test.example\r\nbcc:all@test.example" }, EMAIL],
    [{ email: "Grace <grace@test.example>" }, EMAIL],
    [{ email: `${"a".repeat(1_000_000)}@test.example` }, EMAIL],
    [{ email: "gr\0ace@test.example" }, `email ${ODD}`],
    [{ email: "BOB@Example.com" }, "email already registered"],
    [{ age: -1 }, AGE],
    [{ age: 151 }, AGE],
    [{ age: 2_147_483_647 }, AGE],
    [{ age: 2_147_483_648 }, "age is out of range"],
    [{ age: -2_147_483_649 }, "age is out of range"],
    [{ age: 9_007_199_254_740_992 }, "age is out of range"],
    [{ age: 1e300 }, "age is out of range"],
    [{ age: 0.5 }, "age must be a whole number"],
    [{ age: "36" }, "age must be a whole number"],
    [{ age: true }, "age must be a whole number"],
    [{ age: [36] }, "age must be a whole number"],
    [{ age: {} }, "age must be a whole number"],
    [{ name: "", age: 999 }, `${AGE}; ${NAME}`],
  ])("%j is rejected by POST, PUT and PATCH with the reason", async (given, message) => {
    const answers = [
      await failure("POST /users", { body: { ...GRACE, ...given } }),
      await failure("PUT /users/1", { body: { ...GRACE, ...given } }),
      await failure("PATCH /users/1", { body: given }),
    ];
    const refused = message.endsWith("registered") ? [409, "RESOURCE_CONFLICT"] : [400, "VALIDATION_ERROR"];
    expect(answers).toEqual(answers.map(() => [...refused, message]));
  });
});
