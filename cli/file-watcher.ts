import { watch } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";

type WatchOptions = {
  /** Called with the path of each file that changes, in the folder: `routes/hello.ts`. */
  readonly onChange: (file: string) => void;
  /** Whether a folder with this path is left out. */
  readonly isLeftOut?: (folder: string) => boolean;
  readonly signal?: AbortSignal | undefined;
};

/**
 * Watches a folder and the folders in it. Each folder has a watcher of its own: a recursive one of Node no longer sees a file that an
 * editor has replaced by a new one.
 */
export async function watchFiles(folder: string, { onChange, isLeftOut, signal }: WatchOptions): Promise<void> {
  const watched = new Set<string>();
  const watchOne = async (path: string): Promise<void> => {
    if (watched.has(path)) return;
    watched.add(path);
    const watcher = watch(join(folder, path), { signal }, (_, name) => {
      if (name !== null) onChange(join(path, name));
      void watchBelow(path);
    });
    // The folder is gone.
    watcher.on("error", () => {});
    watcher.on("close", () => watched.delete(path));
    await watchBelow(path);
  };
  const watchBelow = async (path: string): Promise<void> => {
    const entries = await readdir(join(folder, path), { withFileTypes: true }).catch(() => {
      watched.delete(path);
      return [];
    });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(path, name));
    await Promise.all(folders.filter((each) => !isLeftOut?.(each)).map(watchOne));
  };
  await watchOne("");
}
