/*
 * callback.c - the subscriber and its callbacks; ids and names of calls.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define PREFIX "CUPTI for "
#define HASHED 4096 /* a power of two, well above the number of names */

static const struct entry {
	const char *name;
	uint16_t id;
	uint8_t domain;
} entries[] = {
#define X(domain, name, id) {#name, id, CUPTI_CB_DOMAIN_##domain},
#include "sim_cbid.inc"
#undef X
};

static const struct entry *by_name[HASHED], *by_id[2][CBIDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned hash(const char *name)
{
	unsigned h = 5381;
	while (*name)
		h = h * 33 + (unsigned char)*name++;
	return h;
}

static void index_names(void)
{
	for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
		const struct entry *e = &entries[i];
		unsigned at = hash(e->name);
		while (by_name[at % HASHED])
			at++;
		by_name[at % HASHED] = e;
		if (e->id < CBIDS)
			by_id[e->domain == CUPTI_CB_DOMAIN_RUNTIME_API][e->id] = e;
	}
}

int cbid_of(const char *symbol, bool runtime)
{
	uint8_t domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
	pthread_once(&once, index_names);
	const struct entry *e;
	for (unsigned at = hash(symbol); (e = by_name[at % HASHED]); at++)
		if (e->domain == domain && !strcmp(e->name, symbol))
			return e->id < CBIDS ? e->id : 0;
	return 0;
}

const char *cbid_name(CUpti_CallbackDomain domain, uint32_t id)
{
	pthread_once(&once, index_names);
	if ((domain != CUPTI_CB_DOMAIN_DRIVER_API && domain != CUPTI_CB_DOMAIN_RUNTIME_API) || id >= CBIDS)
		return NULL;
	const struct entry *e = by_id[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id];
	return e ? e->name : NULL;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
	ENTER();
	if (!name)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*name = cbid_name(domain, id);
	return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

void callback_run(const struct sim_call *call, CUpti_ApiCallbackSite site)
{
	CUpti_CallbackDomain domain = call->runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
	pthread_mutex_lock(&cu.lock);
	const struct subscriber *s = cu.subscriber;
	bool wanted = s && s->live && s->callback && call->id && s->enabled[domain][call->id] && !cu.in_exit;
	CUpti_CallbackFunc callback = wanted ? s->callback : NULL;
	void *user = wanted ? s->user : NULL;
	const struct sim_trace_driver *driver = cu.driver;
	pthread_mutex_unlock(&cu.lock);
	if (!callback)
		return;
	CUresult result = call->result;
	uint32_t unused;
	CUpti_CallbackData data = {
		.callbackSite = site,
		.functionName = call->symbol,
		.functionReturnValue = site == CUPTI_API_EXIT ? &result : NULL,
		.context = driver->current(),
		.correlationData = (uint64_t *)&call->data,
		.correlationId = call->correlation,
	};
	if (data.context)
		driver->context(data.context, &data.contextUid, &unused);
	me.inside = site == CUPTI_API_ENTER ? INSIDE_ENTER : INSIDE_EXIT;
	callback(user, domain, (CUpti_CallbackId)call->id, &data);
	me.inside = INSIDE_NOTHING;
}

/* ---- the subscriber ---- */

static CUptiResult subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *user,
							 const char *name, char *old, size_t old_size)
{
	const char *there = foreign_present() ? "Nsight Systems" : NULL;
	struct subscriber *s = calloc(1, sizeof *s);
	if (!s)
		return CUPTI_ERROR_OUT_OF_MEMORY;
	s->callback = callback;
	s->user = user;
	s->live = true;
	strcpy(s->name, PREFIX);
	strncat(s->name, name ? name : "", sizeof s->name - sizeof PREFIX);
	pthread_mutex_lock(&cu.lock);
	if (!there && cu.subscriber && cu.subscriber->live)
		there = cu.subscriber->name;
	if (there && old && old_size) {
		strncpy(old, there, old_size - 1);
		old[old_size - 1] = 0;
	}
	if (!there) {
		free(cu.subscriber); /* older handles: a client that still uses one gets an error or is lucky */
		cu.subscriber = s;
	}
	pthread_mutex_unlock(&cu.lock);
	if (there) {
		free(s);
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	}
	*out = (CUpti_SubscriberHandle)s;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *user)
{
	NEED_DRIVER();
	if (!out)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (fault(FAULT_DENY))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	return subscribe(out, callback, user, NULL, NULL, 0);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *user,
							  CUpti_SubscriberParams *p)
{
	NEED_DRIVER();
	if (!out || (p && p->structSize != CUpti_SubscriberParams_STRUCT_SIZE))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (fault(FAULT_DENY))
		return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
	return subscribe(out, callback, user, p ? p->subscriberName : NULL, p ? p->oldSubscriberName : NULL,
					 p ? p->oldSubscriberSize : 0);
}

/* Lock held. NULL: not the living subscriber. */
static struct subscriber *subscriber_get(CUpti_SubscriberHandle handle)
{
	struct subscriber *s = cu.subscriber;
	if (!s || (CUpti_SubscriberHandle)s != handle)
		return NULL;
	if (!s->live)
		complain("use of a subscription that has ended");
	return s->live ? s : NULL;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	ENTER();
	pthread_mutex_lock(&cu.lock);
	struct subscriber *s = subscriber_get(handle);
	if (s)
		s->live = false;
	pthread_mutex_unlock(&cu.lock);
	return s ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

static void enable_domain(struct subscriber *s, CUpti_CallbackDomain domain, bool on)
{
	memset(s->enabled[domain], on, sizeof s->enabled[domain]);
}

static bool domain_valid(CUpti_CallbackDomain domain)
{
	return domain > CUPTI_CB_DOMAIN_INVALID && domain < CUPTI_CB_DOMAIN_SIZE;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
								CUpti_CallbackId id)
{
	NEED_DRIVER();
	if (!domain_valid(domain) || id >= CBIDS || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&cu.lock);
	struct subscriber *s = subscriber_get(handle);
	if (s)
		s->enabled[domain][id] = enable != 0;
	pthread_mutex_unlock(&cu.lock);
	return s ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
{
	NEED_DRIVER();
	if (!domain_valid(domain))
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&cu.lock);
	struct subscriber *s = subscriber_get(handle);
	if (s)
		enable_domain(s, domain, enable != 0);
	pthread_mutex_unlock(&cu.lock);
	return s ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle handle)
{
	NEED_DRIVER();
	pthread_mutex_lock(&cu.lock);
	struct subscriber *s = subscriber_get(handle);
	for (int d = 1; s && d < CUPTI_CB_DOMAIN_SIZE; d++)
		enable_domain(s, (CUpti_CallbackDomain)d, enable != 0);
	pthread_mutex_unlock(&cu.lock);
	return s ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetCallbackState(uint32_t *enable, CUpti_SubscriberHandle handle,
								  CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	NEED_DRIVER();
	if (!enable || !domain_valid(domain) || id >= CBIDS || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	pthread_mutex_lock(&cu.lock);
	struct subscriber *s = subscriber_get(handle);
	if (s)
		*enable = s->enabled[domain][id];
	pthread_mutex_unlock(&cu.lock);
	return s ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiSupportedDomains(size_t *count, CUpti_DomainTable *table)
{
	static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
											 CUPTI_CB_DOMAIN_RESOURCE,   CUPTI_CB_DOMAIN_SYNCHRONIZE,
											 CUPTI_CB_DOMAIN_NVTX,       CUPTI_CB_DOMAIN_STATE};
	NEED_DRIVER();
	if (!count || !table)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*count = sizeof domains / sizeof domains[0];
	*table = domains;
	return CUPTI_SUCCESS;
}
