// One HTML file: script and style are put into the page, and a policy that lets nothing else run or load. A text of a record that slipped through as markup
// would still be no script.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

const sha256 = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The text of a package's licence, as it may stand in a comment. */
function licence(name: string): string {
  const text = readFileSync(`node_modules/${name}/LICENSE`, "utf8").replaceAll("\r\n", "\n");
  if (text.includes("--")) throw new Error(`the licence of ${name} would end a comment`);
  return text;
}

/** The place where crates/report/src/html.rs puts the view. */
const PLACE = '<script type="application/json" id="view">null</script>';

function oneFile(): Plugin {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find((file) => file.fileName.endsWith(".html"));
      if (page?.type !== "asset") return this.error("no page in the bundle");
      if (String(page.source).split(PLACE).length !== 2) return this.error(`report.html must hold, once and on one line: ${PLACE}`);
      let [script, style] = ["", ""];
      for (const file of Object.values(bundle)) {
        if (file.type === "chunk") script += file.code;
        else if (file.fileName.endsWith(".css")) style += file.source;
        if (file !== page) delete bundle[file.fileName];
      }
      script = script.trim();
      style = style.trim();
      if (/<\/(script|style)|<!--/i.test(script + style)) return this.error("script or style would end early in a page");
      const policy = `default-src 'none'; script-src ${sha256(script)}; style-src ${sha256(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
      page.source = String(page.source)
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace(/(<meta charset="utf-8" \/>)/, (charset) => `${charset}\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`)
        .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
        // Required by its licence.
        .replace("</body>", () => `  <!-- In the script below: uPlot.\n${licence("uplot")}-->\n  </body>`)
        // After the view, so that it is there when the script runs.
        .replace("</body>", () => `  <script type="module">${script}</script>\n  </body>`);
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [oneFile()],
  build: {
    rollupOptions: { input: "report.html" },
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
});
