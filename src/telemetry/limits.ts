/** The limits of telemetry. */

/** The most values of one label in metrics and span names. Further values are counted as 'other'. */
export const LABEL_VALUES_MAX = 100
/** The most label sets of one metric. Further sets are counted together. */
export const METRIC_SERIES_MAX = 500
/** Longer values of labels are cut. */
export const LABEL_LENGTH_MAX = 120
/** How long the gauges of the database may keep a scrape waiting. */
export const SCRAPE_MS_MAX = 5_000
