/* A report that fills several pages: one question after the other, until the shard has no more to say. A list is of no
 * one moment: what is there all the while is in it once; what is declared, comes or goes meanwhile may be. */
#ifndef CLIENT_API_REPORT_PAGES_H
#define CLIENT_API_REPORT_PAGES_H

#include "client/api/client_state.h"
#include "proto/psd.pb-c.h"

/* What is asked, and the function that takes each page. */
struct report_pages {
    uint32_t shard;
    enum ps_query query;
    const char *job;   /* NULL: all */
    int timeout_ms;    /* -1: the client's default */
    bool of_each_page; /* the time is for each page, not for all of them together */
    enum ps_err (*take)(void *arg, Psd__Report *page, struct ps_error *e);
    void *arg;
};

/* The first error ends it. PS_ERR_TIMEOUT: the sentence says how long the call has waited, over all pages, or where the
 * time is for each, for the one that did not come. */
enum ps_err report_pages_run(ps_client *c, const struct report_pages *pages, struct ps_error *e) PS_MUST_USE;

/* Where the page after this one begins. False: it was the last. */
bool report_pages_place(const Psd__Report *page, struct core_report_place *next);

#endif
