import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

// Notes what the bundle was built from and what came out, so that a test without npm sees a bundle that is out of date.
function digests(): Plugin {
  const digest = (file: string) => createHash("sha256").update(readFileSync(file)).digest("hex");
  const files = (folder: string) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`);
  return {
    name: "digests",
    writeBundle({ dir }, bundle) {
      const sources = [...files("src"), ...files("public"), "index.html", "package-lock.json", "vite.config.ts"].sort();
      const lines = [
        ...sources.map((file) => `${digest(file)}  web/${file}`),
        ...Object.keys(bundle).map((file) => `${digest(`${dir}/${file}`)}  ${file}`),
      ];
      writeFileSync(`${dir}/digests.txt`, lines.join("\n") + "\n");
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
