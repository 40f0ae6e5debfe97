import { beforeEach } from "vitest";
import { beginTranscript, transcript } from "./transcript.ts";

// The output of a test that fails ends with what it has sent and received.
beforeEach(({ onTestFailed }) => {
  beginTranscript();
  onTestFailed(({ task }) => {
    const error = task.result?.errors?.at(-1);
    const text = transcript();
    if (!error || text === "") return;
    if (error.diff) error.diff += `\n\n${text}`;
    else error.message += `\n\n${text}\n`;
  });
});
