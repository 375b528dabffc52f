import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const sha256 = (text: string | Uint8Array) => createHash("sha256").update(text).digest("hex");

// Names what the bundle was built from and what came out, so that a test without npm sees a bundle that is out of date.
function digests(): Plugin {
  const files = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`);
  return {
    name: "digests",
    generateBundle(_, bundle) {
      const sources = [...files("src"), ...files("public"), "index.html", "package-lock.json", "vite.config.ts"].sort();
      const lines = sources.map((file) => `${sha256(readFileSync(file))}  web/${file}`);
      for (const file of Object.values(bundle))
        lines.push(`${sha256(file.type === "chunk" ? file.code : file.source)}  ${file.fileName}`);
      this.emitFile({ type: "asset", fileName: "digests.txt", source: lines.join("\n") + "\n" });
    },
  };
}

// Plain names: the bundle is part of the Python package and is inlined into exported traces.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  plugins: [digests()],
  build: {
    outDir: "../src/subquest/serve/static",
    emptyOutDir: true,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: { entryFileNames: "assets/app.js", assetFileNames: "assets/app[extname]" },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8420" } },
});
