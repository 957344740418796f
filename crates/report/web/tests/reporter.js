// A line for each test that failed or was skipped, and the sum as the last: `page: 20 passed, 0 failed, 0 skipped`.

/** @param {AsyncIterable<{ type: string, data: any }>} events */
export default async function* reporter(events) {
  let [passed, failed, skipped] = [0, 0, 0];
  for await (const { type, data } of events) {
    // Files count as tests of their own in some versions; what is counted has none within.
    const file = typeof data?.name === "string" && data.name.endsWith(".test.js");
    if (type === "test:pass" && !file) {
      if (data.skip === undefined) {
        passed += 1;
        yield `ok ${data.name} (${Math.round(data.details?.duration_ms ?? 0)} ms)\n`;
      } else {
        skipped += 1;
        yield `page, ${data.name}: SKIPPED: ${data.skip}\n`;
      }
    } else if (type === "test:fail" && !(file && data.details?.error?.failureType === "subtestsFailed")) {
      failed += 1;
      const error = data.details?.error;
      yield `FAILED ${data.name}\n${error?.cause?.stack ?? error?.cause ?? error}\n`;
    } else if (type === "test:stdout" || type === "test:stderr") {
      yield data.message;
    }
  }
  yield `page: ${passed} passed, ${failed} failed, ${skipped} skipped\n`;
}
