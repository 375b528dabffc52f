import { defineConfig } from "vite";

// Plain names: the bundle is part of the Python package and is inlined into exported traces.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
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
