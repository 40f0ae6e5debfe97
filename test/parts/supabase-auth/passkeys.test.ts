import { describe } from "vitest";
import { testPasskeys } from "./passkeys.ts";

describe("passkeys by /auth/v1", () => testPasskeys("bigint"));
